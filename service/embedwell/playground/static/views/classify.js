// The labels of texts, or of pairs of texts.
import { html } from "../vendor/htm-preact.js";
import { send, useLoad } from "../api.js";
import { Bars } from "../bars.js";
import { CopyButtons, Results, Slider, Status, TextArea, Truncated, clipped, lines } from "../parts.js";
import { useUrlState } from "../url_state.js";

const DEFAULTS = { texts: "I like it.\nNever again.\nIt arrived on Tuesday.", seconds: "", best: 5 };

/** The input to classify: a text, or a pair with the second text of its line, or with the only second text. */
const inputsOf = (texts, seconds) => texts.map((text, i) => [text, ...[seconds.length === 1 ? seconds[0] : seconds[i]].filter(Boolean)]);

async function classify(request, signal) {
  const response = await send(request, signal);
  return { inputs: request.body.inputs, labels: await response.json(), truncated: Number(response.headers.get("x-truncated")) };
}

export default function Classify() {
  const [state, update] = useUrlState("classify", DEFAULTS);
  const inputs = inputsOf(lines(state.texts), lines(state.seconds)), ready = inputs.length > 0;
  const request = { path: "/predict", body: { inputs, truncate: true } };
  const result = useLoad((signal) => (ready ? classify(request, signal) : null), [state.texts, state.seconds]);
  const data = ready && result.data;
  return html`
    <p class="lead">The probability of each of the model's labels for each text. A model of text pairs (does the second text follow from the first?) reads a
      second text for each line; a single second text is paired with every line.</p>
    <div class="columns">
      <${TextArea} label="Texts, one per line" rows=${4} value=${state.texts} onInput=${(texts) => update({ texts })} />
      <${TextArea} label="Second texts, for pairs (optional)" rows=${4} value=${state.seconds} onInput=${(seconds) => update({ seconds })} />
    </div>
    <div class="controls"><${Slider} label="Labels shown" value=${state.best} min=${1} max=${20} onInput=${(best) => update({ best })} /></div>
    <${Status} ...${result} />
    <${Results} stale=${result.error}>
      ${!ready && html`<p class="hint">Type a text to see its labels.</p>`}
      ${data && html`<${Truncated} count=${data.truncated} />
        <div class="columns">${data.inputs.map((texts, i) => html`<${Labels} texts=${texts} labels=${data.labels[i]} best=${state.best} />`)}</div>
        <${CopyButtons} requests=${[request]} />`}
    <//>`;
}

function Labels({ texts, labels, best }) {
  const name = texts.map((text) => clipped(text, 160)).join(" / "), rest = labels.length - best;
  return html`<section><h2>${name}</h2>
    <${Bars} label=${`Labels of ${name}`} items=${labels.slice(0, best).map(({ label, score }) => ({ name: label, value: score }))} high=${1} />
    ${rest > 0 && html`<p class="hint">${rest} more labels</p>`}</section>`;
}
