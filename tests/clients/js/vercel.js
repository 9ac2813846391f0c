import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany } from "ai";
import { run } from "./run.js";

await run(async (url, apiKey, model, values) => {
  const provider = createOpenAICompatible({ name: "local", baseURL: `${url}/v1`, apiKey });
  return (await embedMany({ model: provider.embeddingModel(model), values })).embeddings;
});
