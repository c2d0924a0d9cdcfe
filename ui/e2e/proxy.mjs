/**
 * A proxy on loopback for tests: it serves the built files with the security headers and passes the API on with the server's
 * token. Unlike `noetl serve` it can sign in at an issuer as a deployment does, buffer its stream, grant any scopes, and vanish while the server runs.
 */
import { createReadStream, existsSync, readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { extname, join, normalize } from "node:path";

const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "worker-src 'self'",
  "form-action 'self'",
  "base-uri 'self'",
  "frame-ancestors 'none'",
].join("; ");
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
const CSRF = "proof of the page";

/** Serve the built UI and pass the API on; resolves to the address. */
export async function startProxy({ dist, api, token, scopes = ["read", "execute", "write", "admin"], stream = true, port = 0, code, issuer }) {
  const session = { code, entered: code === undefined };
  const server = createServer((asked, answer) => {
    const url = new URL(asked.url, "http://ui.test");
    if (url.pathname === "/") answer.writeHead(302, { Location: "/ui/" }).end();
    else if (issuer && url.pathname === "/ui/sign-in.json") answerJson(answer, 200, issuer.signIn);
    else if (url.pathname.startsWith("/ui/")) serveFile(dist, url.pathname.slice(4), answer, issuer?.signIn.issuer);
    else if (issuer && !issuer.admits(asked.headers)) answerJson(answer, 401, { message: "Unauthorized" });
    else if (issuer && url.pathname === "/api/stream") answerJson(answer, 404, { status: 404, code: "not_found" });
    else if (url.pathname === "/api/session") void serveSession(asked, answer, scopes, session);
    else if (!session.entered || (code && asked.headers["x-csrf-token"] !== CSRF)) refuse(answer);
    else if (url.pathname === "/api/stream" && !stream) keepStream(answer);
    else passOn(asked, answer, { api, token });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const bound = server.address().port;
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { address: `http://127.0.0.1:${bound}`, port: bound, close };
}

function answerJson(answer, status, body) {
  answer.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
}

function serveFile(dist, name, answer, issuer) {
  const path = join(dist, normalize(`/${name}`));
  const file = extname(path) && existsSync(path) ? path : join(dist, "index.html");
  answer.writeHead(200, {
    "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
    "Content-Security-Policy": issuer ? CSP.replace("connect-src 'self'", `connect-src 'self' ${issuer}`) : CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
  });
  createReadStream(file).pipe(answer);
}

/** One session, for the browser that knows the code; without a code there is always one. */
async function serveSession(asked, answer, scopes, session) {
  if (asked.method === "POST") {
    const { code } = JSON.parse(await textOf(asked));
    if (code !== session.code || session.entered) return refuse(answer);
    session.entered = true;
  }
  const proven = session.code === undefined || asked.method === "POST" || asked.headers["x-csrf-token"] === CSRF;
  if (!session.entered || !proven) return refuse(answer);
  if (asked.method === "DELETE") {
    session.entered = false;
    return answer.writeHead(204).end();
  }
  const csrf = session.code === undefined ? "" : CSRF;
  answer.writeHead(200, { "Content-Type": "application/json" });
  answer.end(JSON.stringify({ csrf, scopes, principal: "token:owner", expires_at: null }));
}

function refuse(answer) {
  answer.writeHead(401, { "Content-Type": "application/problem+json" });
  answer.end(JSON.stringify({ status: 401, code: "unauthenticated", detail: "There is no session." }));
}

async function textOf(asked) {
  let text = "";
  for await (const chunk of asked) text += chunk;
  return text;
}

/** A buffering proxy answers, and keeps what comes after. */
function keepStream(answer) {
  answer.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  answer.flushHeaders();
}

function passOn(asked, answer, { api, token }) {
  const headers = { ...asked.headers, authorization: `Bearer ${token}`, host: new URL(api).host };
  delete headers.origin;
  const on = request(api + asked.url, { method: asked.method, headers }, (from) => {
    answer.writeHead(from.statusCode, from.headers);
    from.pipe(answer);
  });
  on.on("error", () => answer.destroy());
  answer.on("close", () => on.destroy());
  asked.pipe(on);
}

if (import.meta.url.endsWith(process.argv[1])) {
  const [, , dist, api, tokenFile] = process.argv;
  const { address } = await startProxy({ dist, api, token: readFileSync(tokenFile, "utf8").trim() });
  console.log(address);
}
