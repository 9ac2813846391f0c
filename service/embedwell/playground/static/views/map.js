// A map of many texts: PCA or UMAP of their vectors, coloured by a column, with neighbours.
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { Unreachable, embed, embedRequest, useConnection } from "../api.js";
import { colorColumns, textColumn } from "../columns.js";
import { CopyButtons, Results, Select, Status } from "../parts.js";
import { Scatter } from "../scatter.js";
import { Source, inWorker, readRows } from "../source.js";
import { useUrlState } from "../url_state.js";

const COPIED = 64; // texts
const EXAMPLE = `kind,text
animal,A kitten sleeps in the sun
animal,The dog guards the sheep
animal,Two horses graze by the river
animal,An owl hunts at night
animal,Bees gather nectar
food,Fresh bread with butter
food,A bowl of lentil soup
food,Pancakes with maple syrup
food,Rice and vegetables
food,He fried an egg
money,The bank raised its interest rate
money,Shares fell after the report
money,She paid the invoice in cash
money,The budget was approved
money,Taxes are due in April
travel,The train leaves from platform nine
travel,We landed in Lisbon at noon
travel,A tent beside the mountain lake
travel,Their passports had expired
travel,The ferry was delayed by fog`;

let kept = { text: EXAMPLE, name: "" }; // the texts, which survive a change of view or model

export default function TextMap({ theme }) {
  const [state, update] = useUrlState("map", { method: "pca" });
  const [source, changeSource] = useState(kept); // name: a file's name; "" for other texts
  const setSource = (changed) => { kept = changed; changeSource(changed); };
  const [table, setTable] = useState(null); // {id, source, rows, texts, vectors, names}
  const [columns, setColumns] = useState({ text: "", color: "" });
  const [progress, setProgress] = useState(null);
  const [error, setError] = useState(null);
  const [view, setView] = useState(null); // {points, explained, method}
  const running = useRef(null), top = useRef();

  const cancel = () => running.current?.abort();
  useEffect(() => cancel, []);

  /** Run one job at a time; a job takes a signal, and stops when it is aborted. */
  const start = async (job) => {
    cancel();
    const controller = (running.current = new AbortController());
    setError(null);
    try {
      await job(controller.signal);
    } catch (error) {
      if (running.current === controller) setError(controller.signal.aborted ? new Error("Cancelled.") : error);
    } finally {
      if (running.current === controller) { setProgress(null); running.current = null; }
    }
  };

  const embedAll = (source, chosen = columns.text) => start(async (signal) => {
    const rows = await readRows(source, signal);
    const names = Object.keys(rows[0] || {}), ofTexts = names.includes(chosen) ? chosen : textColumn(rows, names);
    const texts = rows.map((row) => String(row[ofTexts] ?? "").trim());
    const filled = rows.filter((_, i) => texts[i]), inputs = texts.filter(Boolean);
    if (inputs.length < 3) throw new Error("A map needs at least three texts. Add more.");
    const vectors = await embed(inputs, signal, (done) => setProgress({ label: `Embedded ${done} of ${inputs.length}`, share: done / inputs.length }));
    const { groups, numbers } = colorColumns(filled, names.filter((name) => name !== ofTexts)), colors = [...groups, ...numbers];
    setColumns({ text: ofTexts, color: colors.includes(columns.color) ? columns.color : groups[0] || "" });
    setTable({ id: Date.now(), source, rows: filled, texts: inputs, vectors, names, colors });
    await place(vectors, state.method, signal);
  });

  const place = async (vectors, method, signal) => {
    const width = vectors[0].length, all = new Float32Array(vectors.length * width);
    vectors.forEach((vector, i) => all.set(vector, i * width));
    setProgress({ label: `Projecting by ${method.toUpperCase()}` });
    const projection = await inWorker({ action: "project", vectors: all, width, method }, signal, (share) => setProgress({ label: "Projecting by UMAP", share }));
    setView({ ...projection, method });
  };

  const changeMethod = (method) => {
    update({ method });
    if (table) start((signal) => place(table.vectors, method, signal));
  };
  const draw = (changed) => { setSource(changed); embedAll(changed); top.current.scrollIntoView({ block: "nearest" }); };
  const retry = () => draw(source);
  useConnection((reached) => reached && error instanceof Unreachable && embedAll(source));
  useEffect(() => { embedAll(source); }, []);
  const isOld = table !== null && table.source !== source;

  return html`
    <p class="lead">Each text is a point; texts with similar meanings are close together.</p>
    <div ref=${top}><${Status} error=${error} retry=${retry}>
      ${progress && html`<span>${progress.label} ${progress.share !== undefined && html`<progress value=${progress.share} aria-label="Progress" />`}</span>`}
    <//></div>
    <div class="map">
    <${Results} stale=${isOld || error?.retriable}>
      ${view && table && view.points.length === table.texts.length && html`<${Scatter} key=${table.id} table=${table} view=${view} color=${columns.color} theme=${theme} method=${view.method} />`}
    <//>
    <div>
    <${Source} source=${source} example=${EXAMPLE} change=${(changed, isComplete) => (isComplete ? draw : setSource)(changed)} />
    <div class="controls">
      <button type="button" class=${isOld ? "primary" : ""} onClick=${retry} disabled=${progress !== null}>Embed and draw</button>
      ${progress && html`<button type="button" onClick=${cancel}>Cancel</button>`}
      <${Select} label="Projection" value=${state.method} options=${[["pca", "PCA"], ["umap", "UMAP"]]} onChange=${changeMethod} />
      ${table && html`<${Select} label="Text column" value=${columns.text} options=${table.names} onChange=${(text) => embedAll(source, text)} />
        <${Select} label="Colour by" value=${columns.color} options=${[["", "nothing"], ...table.colors]} onChange=${(color) => setColumns({ ...columns, color })} />`}
    </div>
    <p class="help">PCA is exact, and says how much of the variance the map shows. UMAP keeps neighbourhoods.</p>
    </div></div>
    ${table && html`<${CopyButtons} requests=${[embedRequest(table.texts.slice(0, COPIED))]} note=${source.text !== EXAMPLE && "The link does not contain your texts."} />`}`;
}
