/** A small OIDC issuer on loopback: one person who is always signed in, codes that work once, tokens that can be revoked. */
import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const CLIENT = "noetl-ui";

export class Issuer {
  private readonly codes = new Map<string, URLSearchParams>();
  private readonly refreshTokens = new Set<string>();
  private readonly accessTokens = new Set<string>();
  /** Kinds of trades, in their order. */
  readonly trades: string[] = [];
  /** Requests with a token of this issuer that had a cookie as well. */
  cookies = 0;

  private constructor(private readonly server: Server) {
    server.on("request", (asked: IncomingMessage, answer: ServerResponse) => void this.answer(asked, answer));
  }

  static async start(): Promise<Issuer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Issuer(server);
  }

  get signIn() {
    return { issuer: `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`, client_id: CLIENT, scope: "openid noetl/read" };
  }

  /** What the authorizer of an API does. */
  admits(headers: IncomingHttpHeaders): boolean {
    if (headers.cookie) this.cookies++;
    return this.accessTokens.has(headers.authorization?.replace(/^Bearer /, "") ?? "");
  }

  revokeAccess(): void {
    this.accessTokens.clear();
  }

  revokeAll(): void {
    this.revokeAccess();
    this.refreshTokens.clear();
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private async answer(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const url = new URL(asked.url ?? "/", this.signIn.issuer);
    const { searchParams: query } = url;
    if (url.pathname === "/.well-known/openid-configuration") {
      const place = (name: string) => `${this.signIn.issuer}/${name}`;
      const found = { authorization_endpoint: place("authorize"), token_endpoint: place("token"), end_session_endpoint: place("logout") };
      json(answer, 200, { issuer: this.signIn.issuer, ...found });
    } else if (url.pathname === "/authorize") {
      const code = randomUUID();
      this.codes.set(code, query);
      const back = new URL(query.get("redirect_uri") ?? "");
      for (const [name, value] of Object.entries({ code, state: query.get("state") ?? "", iss: this.signIn.issuer })) back.searchParams.set(name, value);
      answer.writeHead(302, { Location: back.href }).end();
    } else if (url.pathname === "/token") {
      let text = "";
      for await (const chunk of asked) text += String(chunk);
      this.trade(new URLSearchParams(text), answer);
    } else {
      answer.writeHead(302, { Location: query.get("post_logout_redirect_uri") ?? "/" }).end();
    }
  }

  private trade(body: URLSearchParams, answer: ServerResponse): void {
    const kind = body.get("grant_type") ?? "";
    this.trades.push(kind);
    const proven = kind === "refresh_token" ? this.refreshTokens.delete(body.get("refresh_token") ?? "") : this.provesCode(body);
    if (!proven || body.get("client_id") !== CLIENT) {
      json(answer, 400, { error: "invalid_grant" });
      return;
    }
    const [access_token, refresh_token] = [randomUUID(), randomUUID()];
    this.accessTokens.add(access_token);
    this.refreshTokens.add(refresh_token);
    json(answer, 200, { access_token, refresh_token, token_type: "Bearer", expires_in: 3600 });
  }

  /** RFC 7636: only the page that asked knows the verifier. */
  private provesCode(body: URLSearchParams): boolean {
    const code = body.get("code") ?? "";
    const begun = this.codes.get(code);
    this.codes.delete(code);
    const challenge = createHash("sha256").update(body.get("code_verifier") ?? "").digest("base64url");
    return begun?.get("code_challenge") === challenge && begun.get("redirect_uri") === body.get("redirect_uri");
  }
}

function json(answer: ServerResponse, status: number, body: unknown): void {
  answer.writeHead(status, { "Content-Type": "application/json", "Access-Control-Allow-Origin": "*" });
  answer.end(JSON.stringify(body));
}
