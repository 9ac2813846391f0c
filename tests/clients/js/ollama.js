import { Ollama } from "ollama";
import { run } from "./run.js";

await run(async (host, key, model, input) => {
  const client = new Ollama({ host, headers: { Authorization: `Bearer ${key}` } });
  return (await client.embed({ model, input })).embeddings;
});
