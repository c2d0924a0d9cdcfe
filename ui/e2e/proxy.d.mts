import type { IncomingHttpHeaders } from "node:http";

export interface Proxy {
  address: string;
  port: number;
  close: () => void;
}

export function startProxy(options: {
  dist: string;
  api: string;
  token: string;
  scopes?: string[];
  stream?: boolean;
  port?: number;
  /** The code that opens a session, once; without it no session is needed. */
  code?: string;
  /** Requests need one of its tokens, as behind the JWT authorizer of API Gateway. */
  issuer?: { signIn: { issuer: string }; admits: (headers: IncomingHttpHeaders) => boolean };
}): Promise<Proxy>;
