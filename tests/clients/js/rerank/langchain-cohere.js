import { CohereRerank } from "@langchain/cohere";
import { CohereClient } from "cohere-ai";
import { run } from "./run.js";

await run((environment, token, model, query, documents) => {
  const client = new CohereClient({ environment, token });
  return new CohereRerank({ model, client, topN: 2 }).rerank(documents, query);
});
