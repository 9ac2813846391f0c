import { InferenceClient } from "@huggingface/inference";
import { run } from "./run.js";

// A TEI server has one model, and is not told a name.
await run((url, key, model, inputs) =>
  new InferenceClient(key, { endpointUrl: `${url}/embed` }).featureExtraction({ inputs }),
);
