import OpenAI from "openai";
import { run } from "./run.js";

await run(async (url, apiKey, model, input) => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
  const questions = [
    { type: "choice", instructions: "which", choices: [{ value: "a" }, { value: "b" }] },
    { type: "predicate", instructions: "so" },
  ];
  const { answers } = await client.decisions.create({ model, input, questions });
  return [answers[0].choice, answers[1].probability];
});
