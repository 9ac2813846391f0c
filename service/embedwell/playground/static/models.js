// The server's models: the list, their features, and the chosen one.
import { useEffect, useState } from "./vendor/htm-preact.js";
import { sendJson, useLoad } from "./api.js";
import { readAddress } from "./url_state.js";

const PERIOD = 3000; // ms between two requests for the models' states
const KINDS = { rerank: "reranks", classify: "classifies", multi_vector: "multi-vector" };
const get = (path, signal) => sendJson({ method: "GET", path }, signal);

/** Each model once, even if it has several names: [{name, task, outputs, modalities, dimensions, state}]. */
async function readModels(signal) {
  const { data } = await get("/v1/models", signal);
  const infos = await Promise.all(data.map(({ id }) => get(`/info?model=${encodeURIComponent(id)}`, signal)));
  return data.map(({ id, task, dimensions, state }, i) => ({ name: id, task, dimensions, state, outputs: infos[i].outputs, modalities: infos[i].modalities }))
    .filter(({ name }, i) => infos[i].model === name);
}

/** The models as from useLoad, read again when `key` changes; several models have their current states. */
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

/** Short description of a model's purpose. */
export function describe({ task, outputs, modalities, dimensions }) {
  const kind = KINDS[task] || outputs.filter((name) => name !== "sparse_query").map((name) => name.replace("multi", "multi-vector")).join(", ");
  const size = outputs.some((name) => name !== "sparse" && name !== "sparse_query") ? `, ${dimensions} dimensions` : "";
  return `${kind}${modalities.includes("image") ? ", images" : ""}${size}`;
}

const latest = []; // chosen names, most recent first

/** Record which model was chosen. */
export const remember = (name) => name && latest.unshift(name);

/** The model's name for the address of a view: the most recently chosen one that supports it; "" for the first. */
export function modelFor(models, can) {
  const able = models.filter(can).map(({ name }) => name), name = latest.find((chosen) => able.includes(chosen));
  return !name || name === able[0] ? "" : name;
}

/** The model in the address, or else the first that supports a view. Undefined for an unknown name. */
export function chosenModel(models, can) {
  const { model } = readAddress();
  return model ? models.find(({ name }) => name === model) : models.find(can) || models[0];
}
