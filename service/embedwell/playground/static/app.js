// The page around the views: navigation, model, theme and API key.
import { html, render, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { Unreachable, apiKey, checkConnection, selectModel, setApiKey, useConnection } from "./api.js";
import { chosenModel, describe, modelFor, remember, useModels } from "./models.js";
import { Status } from "./parts.js";
import { fragment, readAddress } from "./url_state.js";
import { VIEWS, homeView, offeredViews } from "./views.js";

const THEMES = ["system", "light", "dark"];

function App() {
  const [visit, setVisit] = useState(0); // a new key makes a view restart from the address
  const again = () => setVisit((count) => count + 1);
  const [key, setKey] = useState(apiKey);
  const models = useModels(key), view = currentView(models.data);
  const { component, error, retry } = useComponent(view);
  const [theme, setTheme] = useTheme();
  const model = models.data && chosenModel(models.data, VIEWS[view].can);
  const named = readAddress().model; // an unknown name is sent, too, because the server's error lists its models
  selectModel(named || (models.data?.length > 1 ? model.name : ""), model?.state);
  useLayoutEffect(() => { // before the paint, because a link can be pressed as soon as it is visible
    const navigate = () => { remember(readAddress().model); again(); };
    remember(readAddress().model);
    addEventListener("hashchange", navigate);
    return () => removeEventListener("hashchange", navigate);
  }, []);
  useEffect(() => {
    document.title = `${VIEWS[view].title} · embedwell`;
  }, [view]);
  const changeKey = (text) => { setApiKey(text); setKey(text); again(); };
  const shown = model && !VIEWS[view].can(model) ? html`<${OtherModels} view=${view} model=${model} models=${models.data} />`
    : component && models.data ? html`<${component} key=${`${view} ${visit}`} theme=${theme} model=${model} models=${models.data} />`
    : html`<${Status} error=${error || models.error} retry=${models.error ? models.retry : retry} />`;
  return html`
    <a class="skip" href="#${view}" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>Skip to the view</a>
    <${Header} view=${view} models=${models} model=${model} theme=${theme} setTheme=${setTheme} onKey=${changeKey} />
    <main tabindex="-1">
      <h1>${VIEWS[view].title}</h1>
      ${shown}
    </main>
    <footer>This server computes all vectors and positions. <a href="docs">API</a></footer>`;
}

const currentView = (models) => {
  const { view } = readAddress();
  return view in VIEWS ? view : homeView(models);
};

/** Message for a view that the chosen model does not support: the models that do, and the views that the model supports. */
function OtherModels({ view, model, models }) {
  const { lacks, example, can } = VIEWS[view], able = models.filter(can), { parameters, model: named } = readAddress();
  const links = (items) => items.map(([text, address], i) => html`${i > 0 && ", "}<a href=${address}>${text}</a>`);
  return html`<p class="hint" role="status">“${model.name}” (${describe(model)}) ${lacks}. ${able.length > 0
      ? html`These models support this view: ${links(able.map(({ name }) => [name, fragment(view, parameters, name)]))}.`
      : html`No model of this server supports this view; <code>embedwell serve ${example}</code> serves one that does.`}</p>
    <p class="hint">Views of “${model.name}”: ${links(offeredViews([model]).map((name) => [VIEWS[name].title, fragment(name, {}, named)]))}.</p>`;
}

/** The component of a view, which is loaded when the view is first shown. */
function useComponent(view) {
  const [components, setComponents] = useState({});
  const [error, setError] = useState(null);
  const load = () => {
    setError(null);
    import(`./views/${view}.js`).then((module) => setComponents((others) => ({ ...others, [view]: module.default })), (failure) => {
      setError(failure instanceof TypeError ? new Unreachable() : failure);
      checkConnection();
    });
  };
  useEffect(load, [view]);
  useConnection((reached) => reached && error && load());
  return { component: components[view], error, retry: load };
}

const storedTheme = () => localStorage.getItem("theme") || "system";

function applyTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function useTheme() {
  const [theme, setTheme] = useState(storedTheme);
  const choose = (name) => {
    localStorage.setItem("theme", name);
    applyTheme(name);
    setTheme(name);
  };
  return [theme, choose];
}

function Header({ view, models, model, theme, setTheme, onKey }) {
  const known = models.data || undefined, { error } = models;
  const [reached, setReached] = useState(true);
  useConnection(setReached);
  const needsKey = !known && error?.status === 401;
  const state = !reached || (!known && error && !error.status) ? "offline" : needsKey ? "needs an API key" : "";
  const several = known?.length > 1, views = offeredViews(known);
  const [chosen, setChosen] = useState(null), open = chosen ?? needsKey; // whether a phone shows the settings
  const links = useRef();
  useLayoutEffect(() => { // on a phone, the row of links scrolls
    const current = links.current.querySelector("[aria-current]");
    if (current) links.current.scrollLeft = current.offsetLeft - (links.current.clientWidth - current.clientWidth) / 2;
  }, [view, views.length, several]);
  const navigation = html`<nav aria-label="Views" ref=${links}>${views.map((name) => html`
    <a href=${fragment(name, {}, known && modelFor(known, VIEWS[name].can))} aria-current=${name === view ? "page" : undefined}>${VIEWS[name].title}</a>`)}
  </nav>`;
  return html`<header class=${several ? "several" : ""}>
    <p class="brand"><img src="playground/icon.svg" alt="" width="24" height="24" /><strong>embedwell</strong> <span class="model">${state || (several ? "" : known?.[0].name)}</span></p>
    ${several && html`<${ModelChoice} view=${view} models=${known} model=${model} />`}
    <button type="button" class="toggle" aria-expanded=${open ? "true" : "false"} onClick=${() => setChosen(!open)}>Settings</button>
    ${!several && navigation}
    <div class=${open ? "settings open" : "settings"}>
      <${KeyField} onKey=${onKey} />
      <label>Theme <select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
        ${THEMES.map((name) => html`<option value=${name} selected=${name === theme}>${name}</option>`)}
      </select></label>
    </div>
    ${several && navigation}
  </header>`;
}

/** Field for the API key, which is used once it is submitted; typed text survives a rerender. */
function KeyField({ onKey }) {
  const [text, setText] = useState(apiKey);
  return html`<label>API key <input type="password" autocomplete="off" size="10" value=${text} placeholder="if required"
    onInput=${(event) => setText(event.target.value)} onChange=${(event) => onKey(event.target.value.trim())} /></label>`;
}

/** Selection of the model, which the address stores with the state of the view. */
function ModelChoice({ view, models, model }) {
  const chosen = model ? model.name : readAddress().model;
  const choose = ({ target: { value } }) => {
    remember(value);
    location.hash = fragment(view, readAddress().parameters, value === models.find(VIEWS[view].can)?.name ? "" : value);
  };
  return html`<label class="choice"><span>Model </span><select value=${chosen} onChange=${choose}>
    ${!model && html`<option value=${chosen} selected>${chosen} (unknown)</option>`}
    ${models.map((item) => html`<option value=${item.name} selected=${item.name === chosen}>
      ${item.name} · ${describe(item)}${item.state === "loaded" ? "" : ` · ${item.state}`}</option>`)}
  </select></label>`;
}

applyTheme(storedTheme()); // before the first paint
render(html`<${App} />`, document.getElementById("app"));
