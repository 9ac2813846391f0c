import { CohereClientV2 } from "cohere-ai";
import { run } from "./run.js";

await run(async (environment, token, model, query, documents) => {
  const client = new CohereClientV2({ environment, token });
  return (await client.rerank({ model, query, documents, topN: 2 })).results;
});
