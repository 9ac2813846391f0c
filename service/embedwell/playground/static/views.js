// The views of the page, and which models can answer each.
const any = () => true;
const gives = (output) => ({ outputs }) => outputs.includes(output);
const is = (...tasks) => ({ task }) => tasks.includes(task);

/** By the names of the modules in views/. lacks: what is said of a model that cannot answer. */
export const VIEWS = {
  tokens: { title: "Tokens", can: any },
  positions: { title: "Positions", can: any },
  similarity: { title: "Similarity", can: gives("dense"), lacks: "has no dense vectors" },
  document: { title: "Document search", can: gives("dense"), lacks: "has no dense vectors" },
  map: { title: "Map", can: gives("dense"), lacks: "has no dense vectors" },
  images: { title: "Images", can: ({ modalities }) => modalities.includes("image"), lacks: "reads no images" },
  sparse: { title: "Sparse", can: gives("sparse"), lacks: "has no sparse vectors" },
  multi_vector: { title: "Multi-vector", can: gives("multi"), lacks: "has no vectors of tokens to compare" },
  rerank: { title: "Rerank", can: (model) => is("rerank")(model) || gives("multi")(model), lacks: "does not rerank" },
  classify: { title: "Classify", can: is("classify"), lacks: "has no labels" },
  server: { title: "Server", can: any },
};

const TYPICAL = { task: "embed", outputs: ["dense"], modalities: ["text"] };

/** The names of the views that any of the models can answer; until they are known, those of a dense model. */
export const offeredViews = (models = [TYPICAL]) => Object.keys(VIEWS).filter((view) => models.some(VIEWS[view].can));

/** The view that is shown first: tokens, or else what only models of this kind can answer. */
export function homeView([first] = [TYPICAL]) {
  const views = Object.keys(VIEWS), special = views.filter((view) => !VIEWS[view].can(TYPICAL));
  return first.outputs.includes("dense") ? "tokens" : special.find((view) => VIEWS[view].can(first)) || "tokens";
}
