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
}): Promise<Proxy>;
