import { choice, noul, TypeSafeClient } from "@typesafe-ai/sdk";
import { run } from "./run.js";

await run(async (baseURL, apiKey, model, state) => {
  const client = new TypeSafeClient({ baseURL, apiKey });
  const questions = { which: choice("which", { a: null, b: null }), so: noul("so") };
  const { answers } = await client.systemOne({ model, state, questions });
  return [answers.which.choice, answers.so.noul];
});
