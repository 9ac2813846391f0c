// Runs one client as `node CLIENT.js URL KEY MODEL QUERY TEXT...`, and prints as JSON the best two
// texts with their scores, and the messages of the errors that a wrong key and a wrong model raise.
const [url, key, model, query, ...texts] = process.argv.slice(2);

const message = (failing) => failing.then(() => null, (error) => error.message);

/** rerank: (url, key, model, query, texts) => promise of the best two as {index, relevanceScore}. */
export async function run(rerank) {
  const best = await rerank(url, key, model, query, texts);
  const ranking = best.map(({ index, relevanceScore }) => [texts[index], relevanceScore]);
  const wrongKey = await message(rerank(url, "wrong", model, query, texts));
  const wrongModel = await message(rerank(url, key, "another", query, texts));
  console.log(JSON.stringify({ ranking, wrongKey, wrongModel }));
}
