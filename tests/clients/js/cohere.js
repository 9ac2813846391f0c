import { CohereClientV2 } from "cohere-ai";
import { run } from "./run.js";

await run(async (environment, token, model, texts) => {
  const client = new CohereClientV2({ environment, token });
  const answer = await client.embed({
    model,
    texts,
    inputType: "search_document",
    embeddingTypes: ["float"],
  });
  return answer.embeddings.float;
});
