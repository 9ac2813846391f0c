import { createOpenAI } from "@ai-sdk/openai";
import { experimental_decide as decide } from "ai";
import { run } from "./run.js";

await run(async (url, apiKey, name, state) => {
  const model = createOpenAI({ baseURL: `${url}/v1`, apiKey }).decisionModel(name);
  const questions = {
    which: { type: "choice", instructions: "which", criteria: { a: "", b: "" } },
    so: { type: "boolean", instructions: "so" },
  };
  const { answers } = await decide({ model, state, questions, maxRetries: 0 });
  return [answers.which.choice, answers.so.probability];
});
