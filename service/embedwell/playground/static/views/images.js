// Compare images with texts. Images come from files, the clipboard or a drop; none is fetched.
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { ApiError, embed, embedRequest, floats, sendJson, useLoad } from "../api.js";
import { exampleImages } from "../example_images.js";
import { CopyButtons, Field, Results, Status, TextArea, lines } from "../parts.js";
import { ScoreTable } from "../score_table.js";
import { useUrlState } from "../url_state.js";
import { cosine } from "../vector_math.js";

const DEFAULTS = { texts: "a red circle\na blue square\na green triangle\na photo of a cat" };
const MAX_IMAGES = 32;
const NOTE = "Vectors of the texts. To embed an image, add it to the inputs as {\"image\": \"data:image/png;base64,…\"}.";

let kept = null; // images [{name, url}], which survive a change of view or model

const readFile = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve({ name: file.name, url: reader.result });
  reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
  reader.readAsDataURL(file);
});

/** Embed an image; an error names the image. */
async function embedImage({ name, url }, signal) {
  try {
    const [vector] = await sendJson(embedRequest([{ image: url }], { encoding_format: "base64" }), signal);
    return floats(vector);
  } catch (error) {
    if (error instanceof ApiError) error.message = `${name}: ${error.message}`;
    throw error;
  }
}

export default function Images() {
  const [state, update] = useUrlState("images", DEFAULTS);
  const [images, changeImages] = useState(kept ??= exampleImages());
  const [failure, setFailure] = useState(null);
  const setImages = (changed) => { kept = changed.slice(0, MAX_IMAGES); changeImages(kept); };
  const add = (files) => Promise.all(Array.from(files, readFile)).then((added) => { setFailure(null); setImages([...kept, ...added]); }, setFailure);
  usePaste(add);
  const vectors = useRef(new Map()).current; // by the images' URLs, because texts change more often
  const texts = lines(state.texts), ready = texts.length > 0 && images.length > 0;
  const result = useLoad(async (signal) => {
    if (!ready) return null;
    for (const image of images) if (!vectors.has(image.url)) vectors.set(image.url, await embedImage(image, signal));
    const embedded = await embed(texts, signal);
    return { texts, images, scores: embedded.map((text) => images.map(({ url }) => cosine(text, vectors.get(url)))) };
  }, [state.texts, images]);
  const data = ready && result.data;
  return html`
    <p class="lead">Texts and images have vectors in one space: the cosine of a text and an image measures how well they match. Images are sent only to this
      server, and none is fetched from the network.</p>
    <${TextArea} label="Texts, one per line" rows=${4} value=${state.texts} onInput=${(changed) => update({ texts: changed })} />
    <${Chosen} images=${images} setImages=${setImages} add=${add} />
    <${Status} ...${failure ? { error: failure } : result} />
    <${Results} stale=${result.error}>
      ${!ready && html`<p class="hint">Type a text and choose an image to compare them.</p>`}
      ${data && html`<${Scores} data=${data} />
        <${CopyButtons} requests=${[{ ...embedRequest(texts), comment: NOTE }]} note="The link does not contain your images." />`}
    <//>`;
}

/** Call `add(files)` with the images that are pasted anywhere on the page. */
function usePaste(add) {
  const latest = useRef();
  latest.current = add;
  useEffect(() => {
    const paste = ({ clipboardData: { files } }) => files.length && latest.current(files);
    addEventListener("paste", paste);
    return () => removeEventListener("paste", paste);
  }, []);
}

function Chosen({ images, setImages, add }) {
  const [over, setOver] = useState(false);
  const drop = (event) => { event.preventDefault(); setOver(false); add(event.dataTransfer.files); };
  return html`<div class=${over ? "drop over" : "drop"} onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <${Field} label=${`Images (PNG, JPEG, WebP or GIF, at most ${MAX_IMAGES}): choose files, drop them here, or paste`}>
      <input type="file" multiple accept="image/png,image/jpeg,image/webp,image/gif" onChange=${({ target }) => add(target.files).then(() => { target.value = ""; })} />
    <//>
    ${images.length > 0 && html`<ul class="thumbs">${images.map(({ name, url }, i) => html`<li>
      <img class="thumb" src=${url} alt="" /><span class="name">${name}</span>
      <button type="button" aria-label=${`Remove ${name}`} onClick=${() => setImages(images.filter((_, j) => j !== i))}>Remove</button></li>`)}</ul>
      <button type="button" onClick=${() => setImages([])}>Remove all</button>`}
  </div>`;
}

function Scores({ data: { texts, images, scores } }) {
  const all = scores.flat();
  return html`<${ScoreTable} title="Cosine of every text and image" rows=${texts} columns=${images} scores=${scores} low=${Math.min(...all)} high=${Math.max(...all)}
      head=${({ name, url }) => html`<img class="thumb" src=${url} alt=${name} title=${name} />`} />
    <p class="help">Compare the numbers within a row or a column: with most models they are far below 1, even if text and image match.</p>`;
}
