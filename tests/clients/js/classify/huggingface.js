// Run as `node huggingface.js URL TEXT`; prints the labels of the text, with their scores, as JSON.
import { InferenceClient } from "@huggingface/inference";

const [url, inputs] = process.argv.slice(2);
const client = new InferenceClient("unused", { endpointUrl: `${url}/predict` });
console.log(JSON.stringify(await client.textClassification({ inputs, parameters: {} })));
