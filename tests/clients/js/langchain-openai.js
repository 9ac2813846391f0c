import { OpenAIEmbeddings } from "@langchain/openai";
import { run } from "./run.js";

await run((url, apiKey, model, texts) => {
  const configuration = { baseURL: `${url}/v1` };
  return new OpenAIEmbeddings({ model, apiKey, configuration }).embedDocuments(texts);
});
