// The requests of the load test, sent by k6 (https://k6.io):
//   python -m deploy.loadtest --write-bodies bodies.jsonl
//   k6 run -e BODIES=bodies.jsonl -e RATE=20 deploy/loadtest/k6.js
// BODIES is relative to this file, or absolute.
import http from "k6/http";
import { check } from "k6";
import { SharedArray } from "k6/data";

const bodies = new SharedArray("bodies", () => open(__ENV.BODIES).split("\n"));
const url = (__ENV.URL || "http://127.0.0.1:8080") + (__ENV.ROUTE || "/embed");
const headers = { "content-type": "application/json" };
if (__ENV.EMBEDWELL_API_KEY) headers.authorization = `Bearer ${__ENV.EMBEDWELL_API_KEY}`;

export const options = {
  scenarios: {
    open: {
      executor: "constant-arrival-rate",
      rate: Number(__ENV.RATE || 20),
      timeUnit: "1s",
      duration: __ENV.DURATION || "30s",
      preAllocatedVUs: 50,
      maxVUs: 2000,
    },
  },
  thresholds: { checks: ["rate>0.99"] },
};

export default function () {
  const body = bodies[Math.floor(Math.random() * bodies.length)];
  const response = http.post(url, body, { headers, timeout: "60s" });
  check(response, { "status is 200": (r) => r.status === 200 });
}
