// A request as a command or a program that a user can copy.
import { addressOf, apiKey, forModel } from "./api.js";

const commented = (comment) => (comment ? `# ${comment}\n` : "");
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a curl command. The key is a variable, never its value. */
export function asCurl(request) {
  const { method = "POST", path, body, comment } = forModel(request);
  const parts = [`${commented(comment)}curl -s ${shellQuoted(addressOf(path))}`];
  if (apiKey()) parts.push('-H "authorization: Bearer $EMBEDWELL_API_KEY"');
  if (body) parts.push("-H 'content-type: application/json'", `-d ${shellQuoted(JSON.stringify(body))}`);
  else if (method !== "GET") parts.push(`-X ${method}`);
  return parts.join(" \\\n  ");
}

/** A JSON value as a Python literal. */
export function pythonLiteral(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonLiteral(item)}`).join(", ")}}`;
  }
  return JSON.stringify(value); // JSON's escapes are also valid in Python
}

/** The request as a Python program, which prints the response: JSON, or text if `text` is true. */
export function asPython(request) {
  const { method = "POST", path, body, text, comment } = forModel(request);
  const options = [JSON.stringify(addressOf(path))];
  if (body) options.push(`json=${pythonLiteral(body)}`);
  if (apiKey()) options.push('headers={"authorization": f"Bearer {os.environ[\'EMBEDWELL_API_KEY\']}"}');
  return commented(comment) + [
    ...(apiKey() ? ["import os", ""] : []),
    "import httpx",
    "",
    "response = httpx." + method.toLowerCase() + "(",
    ...options.map((option) => `    ${option},`),
    ")",
    "response.raise_for_status()",
    `print(response.${text ? "text" : "json()"})`,
  ].join("\n");
}
