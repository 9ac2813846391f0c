"""Loading of a Doc2Vec model."""

from embedwell_models.checkpoint import weights
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.folder import Folder
from embedwell_models.torch_backend.doc2vec import Doc2VecEncoder, Inference, WordTables


def load_doc2vec_encoder(folder: Folder) -> Doc2VecEncoder:
    """Load the tables of a folder; raises ModelError, also if the operator sets a pooling."""
    if folder.sentence.pooling_source == "setting":
        raise ModelError(
            f"{folder.path}: Doc2Vec infers the vector of a text and has no pooling; "
            "leave it 'auto'"
        )
    file = JsonConfig(folder.encoder / "config.json")
    options = Inference(
        memory=file.get("memory", True),
        window=int(file.get("window", 5)),
        shrink=file.get("shrink_windows", True),
        negative=int(file.get("negative", 5)),
        epochs=int(file.get("epochs", 10)),
        alpha=file.get("alpha", 0.025),
        min_alpha=file.get("min_alpha", 0.0001),
    )
    tensors = weights.load(folder.encoder, folder.spec)
    names = ("token_table", "output_table", "keep", "noise")
    tables = WordTables(*(tensors[name].numpy() for name in names))
    return Doc2VecEncoder(folder.spec.config, options, tables)
