// The server's models: which there are, what each can do, and which one is chosen.
import { useEffect, useState } from "./vendor/htm-preact.js";
import { sendJson, useLoad } from "./api.js";
import { readAddress } from "./url_state.js";

const PERIOD = 3000; // ms between two looks at the models' states
const KINDS = { rerank: "reranks", classify: "classifies", multi_vector: "multi-vector" };
const get = (path, signal) => sendJson({ method: "GET", path }, signal);

/** Each model once, though it may have several names: [{name, task, outputs, modalities, dimensions, state}]. */
async function readModels(signal) {
  const { data } = await get("/v1/models", signal);
  const infos = await Promise.all(data.map(({ id }) => get(`/info?model=${encodeURIComponent(id)}`, signal)));
  return data.map(({ id, task, dimensions, state }, i) => ({ name: id, task, dimensions, state, outputs: infos[i].outputs, modalities: infos[i].modalities }))
    .filter(({ name }, i) => infos[i].model === name);
}

/** The models as useLoad has them, read again when `key` changes; of several, with their states of this moment. */
export function useModels(key) {
  const result = useLoad(readModels, [key], 0);
  const [states, setStates] = useState({});
  const several = result.data?.length > 1;
  useEffect(() => {
    if (!several) return;
    const look = () => document.hidden || get("/v1/models").then(({ data }) => setStates(Object.fromEntries(data.map(({ id, state }) => [id, state]))), () => {});
    const timer = setInterval(look, PERIOD);
    return () => clearInterval(timer);
  }, [several, key]);
  return { ...result, data: result.data?.map((model) => ({ ...model, state: states[model.name] || model.state })) };
}

/** What a model is for, in a few words. */
export function describe({ task, outputs, modalities, dimensions }) {
  const kind = KINDS[task] || outputs.filter((name) => name !== "sparse_query").map((name) => name.replace("multi", "multi-vector")).join(", ");
  const size = outputs.some((name) => name !== "sparse" && name !== "sparse_query") ? `, ${dimensions} dimensions` : "";
  return `${kind}${modalities.includes("image") ? ", images" : ""}${size}`;
}

const latest = []; // names that were chosen, the last one first

/** Note which model was chosen. */
export const remember = (name) => name && latest.unshift(name);

/** The name for the address of a view: the model that was chosen last of those that can answer it; "" for the first. */
export function modelFor(models, can) {
  const able = models.filter(can).map(({ name }) => name), name = latest.find((chosen) => able.includes(chosen));
  return !name || name === able[0] ? "" : name;
}

/** The model of the address; without one there, the first that can answer a view. Undefined for an unknown name. */
export function chosenModel(models, can) {
  const { model } = readAddress();
  return model ? models.find(({ name }) => name === model) : models.find(can) || models[0];
}
