// The views of the page, and the models that support each.
const any = () => true;
const gives = (output) => ({ outputs }) => outputs.includes(output);
const is = (...tasks) => ({ task }) => tasks.includes(task);

/** Views by module name in views/. lacks: the message's end for a model that does not support a view; example: one that does. */
export const VIEWS = {
  search: { title: "Search", can: gives("dense"), lacks: "has no dense vectors", example: "all-MiniLM-L6-v2" },
  similarity: { title: "Similarity", can: gives("dense"), lacks: "has no dense vectors", example: "all-MiniLM-L6-v2" },
  map: { title: "Map", can: gives("dense"), lacks: "has no dense vectors", example: "all-MiniLM-L6-v2" },
  document: { title: "Late chunking", can: gives("dense"), lacks: "has no dense vectors", example: "all-MiniLM-L6-v2" },
  tokens: { title: "Tokens", can: any },
  positions: { title: "Positions", can: any },
  images: { title: "Images", can: ({ modalities }) => modalities.includes("image"), lacks: "reads no images", example: "sentence-transformers/clip-ViT-B-32" },
  sparse: { title: "Sparse", can: gives("sparse"), lacks: "has no sparse vectors", example: "naver/splade-v3" },
  multi_vector: { title: "Multi-vector", can: gives("multi"), lacks: "has no token vectors to compare", example: "colbert-ir/colbertv2.0" },
  rerank: { title: "Rerank", can: (model) => [is("rerank"), gives("dense"), gives("multi")].some((can) => can(model)), lacks: "does not rerank", example: "cross-encoder/ms-marco-MiniLM-L6-v2" },
  classify: { title: "Classify", can: is("classify"), lacks: "has no labels", example: "SamLowe/roberta-base-go_emotions" },
  server: { title: "Server", can: any },
};

const TYPICAL = { task: "embed", outputs: ["dense"], modalities: ["text"] };

/** Names of the views that any model supports; those of a dense model until the models are known. */
export const offeredViews = (models = [TYPICAL]) => Object.keys(VIEWS).filter((view) => models.some(VIEWS[view].can));

/** The view that is shown first: search, or else the view for this kind of model. */
export function homeView([first] = [TYPICAL]) {
  const special = Object.keys(VIEWS).filter((view) => VIEWS[view].can !== any);
  return first.outputs.includes("dense") ? "search" : special.find((view) => VIEWS[view].can(first)) || "tokens";
}
