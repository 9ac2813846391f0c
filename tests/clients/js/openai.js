import OpenAI from "openai";
import { run } from "./run.js";

await run(async (url, apiKey, model, input) => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey });
  const answer = await client.embeddings.create({ model, input });
  return answer.data.map((row) => row.embedding);
});
