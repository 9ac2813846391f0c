import { CohereClient } from "cohere-ai";
import { run } from "./run.js";

await run(async (environment, token, model, query, documents) => {
  const client = new CohereClient({ environment, token });
  const options = { topN: 2, returnDocuments: true };
  const { results } = await client.rerank({ model, query, documents, ...options });
  for (const { index, document } of results) {
    if (document.text !== documents[index]) throw new Error(`document ${index} is another`);
  }
  return results;
});
