// Runs one client as `node CLIENT.js URL KEY MODEL TEXT TEXT`, and prints as JSON the vectors and
// the messages of the errors that a wrong key and a wrong model raise in it.
const [url, key, model, ...texts] = process.argv.slice(2);

const message = (failing) => failing.then(() => null, (error) => error.message);

/** embed: (url, key, model, texts) => promise of vectors. */
export async function run(embed) {
  const vectors = await embed(url, key, model, texts);
  const wrongKey = await message(embed(url, "wrong", model, texts));
  const wrongModel = await message(embed(url, key, "another", texts));
  console.log(JSON.stringify({ vectors, wrongKey, wrongModel }));
}
