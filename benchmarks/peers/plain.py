"""Peer: a minimal FastAPI server around sentence-transformers."""

import os
import sys
from threading import Lock
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

app = FastAPI()
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
model = SentenceTransformer(sys.argv[1], device="cpu")
turn = Lock()  # concurrent passes would compete for the cores


class Request(BaseModel):
    input: str | list[str]
    model: str


@app.post("/v1/embeddings")
def embeddings(request: Request) -> dict[str, Any]:
    texts = [request.input] if isinstance(request.input, str) else request.input
    with turn:
        vectors = model.encode(texts, show_progress_bar=False).tolist()
    data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
    return {"object": "list", "data": data, "model": request.model}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
