import { CohereEmbeddings } from "@langchain/cohere";
import { CohereClient } from "cohere-ai";
import { run } from "./run.js";

await run((environment, token, model, texts) => {
  const client = new CohereClient({ environment, token });
  return new CohereEmbeddings({ model, client }).embedDocuments(texts);
});
