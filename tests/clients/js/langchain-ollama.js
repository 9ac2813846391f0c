import { OllamaEmbeddings } from "@langchain/ollama";
import { run } from "./run.js";

await run((baseUrl, key, model, texts) => {
  const headers = { Authorization: `Bearer ${key}` };
  // It tries every error again, a wrong key, too, for minutes unless it is told not to.
  return new OllamaEmbeddings({ baseUrl, model, headers, maxRetries: 0 }).embedDocuments(texts);
});
