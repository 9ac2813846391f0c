// The page around the views: navigation, theme and API key.
import { html, render, useEffect, useLayoutEffect, useState } from "./vendor/htm-preact.js";
import { Unreachable, apiKey, checkConnection, sendJson, setApiKey, useConnection } from "./api.js";
import { Status } from "./parts.js";
import { readAddress } from "./url_state.js";

const VIEWS = {
  tokens: "Tokens",
  positions: "Positions",
  similarity: "Similarity",
  document: "Document search",
  map: "Map",
  server: "Server",
};
const THEMES = ["system", "light", "dark"];

function App() {
  const [view, setView] = useState(currentView);
  const [visit, setVisit] = useState(0); // a new key makes a view start from the address again
  const { component, error, retry } = useComponent(view);
  const [theme, setTheme] = useTheme();
  useLayoutEffect(() => { // not after the paint: a link may be pressed as soon as it is there
    const navigate = () => { setView(currentView()); setVisit((count) => count + 1); };
    addEventListener("hashchange", navigate);
    return () => removeEventListener("hashchange", navigate);
  }, []);
  useEffect(() => {
    document.title = `${VIEWS[view]} · embedding-service`;
  }, [view]);
  return html`
    <a class="skip" href="#${view}" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>Skip to the view</a>
    <${Header} view=${view} theme=${theme} setTheme=${setTheme} onKey=${() => setVisit((count) => count + 1)} />
    <main tabindex="-1">
      <h1>${VIEWS[view]}</h1>
      ${component ? html`<${component} key=${`${view} ${visit}`} theme=${theme} />` : html`<${Status} error=${error} retry=${retry} />`}
    </main>
    <footer>Vectors and positions are computed by this server alone. <a href="docs">API</a></footer>`;
}

const currentView = () => {
  const { view } = readAddress();
  return view in VIEWS ? view : "tokens";
};

/** The component of a view, which is loaded when the view is shown first. */
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

function Header({ view, theme, setTheme, onKey }) {
  const [model, setModel] = useState("");
  const load = () => sendJson({ method: "GET", path: "/info" }).then(
    (info) => setModel(info.model),
    (error) => setModel(error.status === 401 ? "needs an API key" : error.status ? "" : "offline"));
  useEffect(() => { load(); }, []);
  useConnection((reached) => (reached ? load() : setModel("offline")));
  const changeKey = (event) => { setApiKey(event.target.value.trim()); load(); onKey(); };
  return html`<header>
    <p class="brand"><strong>embedding-service</strong> <span class="model">${model}</span></p>
    <nav aria-label="Views">${Object.entries(VIEWS).map(([name, text]) => html`
      <a href="#${name}" aria-current=${name === view ? "page" : undefined}>${text}</a>`)}
    </nav>
    <div class="settings">
      <label>API key <input type="password" autocomplete="off" size="10" value=${apiKey()} placeholder="if required" onChange=${changeKey} /></label>
      <label>Theme <select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
        ${THEMES.map((name) => html`<option value=${name} selected=${name === theme}>${name}</option>`)}
      </select></label>
    </div>
  </header>`;
}

applyTheme(storedTheme()); // before the first paint
render(html`<${App} />`, document.getElementById("app"));
