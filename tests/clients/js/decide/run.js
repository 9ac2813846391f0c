// Runs one client as `node CLIENT.js URL KEY MODEL TEXT`, and prints as JSON the choice and the
// probability that it gets, and the messages of the errors that a wrong key and a wrong model raise.
const [url, key, model, text] = process.argv.slice(2);

const message = (failing) => failing.then(() => null, (error) => error.message);

/** decide: (url, key, model, text) => promise of a choice and a probability. */
export async function run(decide) {
  const answers = await decide(url, key, model, text);
  const wrongKey = await message(decide(url, "wrong", model, text));
  const wrongModel = await message(decide(url, key, "another", text));
  console.log(JSON.stringify({ answers, wrongKey, wrongModel }));
}
