"""Playbooks that use secrets in every way there is: sent, printed, passed on, cut, counted, written in other ways."""

from __future__ import annotations

CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: child, path: canary/child }
keychain: [{ name: own, kind: bearer, credential: shop }]
workflow:
  - step: start
    tool: { kind: http, url: "$URL/echo?child=1", headers: { X-Token: "{{ keychain.own.token }}" } }
"""
PARENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: canary/parent }
keychain:
  - { name: till, kind: bearer, credential: "{{ workload.till }}" }
  - { name: partner, kind: oauth2 }
workload: { till: shop }
workflow:
  - step: start
    tool:
      - basic: { kind: http, url: "$URL/echo", auth: mail }
      - form:
          kind: http
          method: POST
          url: "$URL/echo"
          params: { q: "{{ keychain.till.token }}" }
          body: { deep: ["{{ keychain.till.token }}"] }
      - python:
          kind: python
          args: { token: "{{ keychain.till.token }}", words: [1, "{{ keychain.till.token }}!"] }
          code: |
            import base64, json, sys, urllib.parse
            print("printed", token, json.dumps({"t": token}), file=sys.stderr)
            print(base64.b64encode(token.encode()).decode(), urllib.parse.quote(token, safe=""))
            shifted = base64.b64encode(b"x" + token.encode()).decode()
            result = {"again": token, "shifted": shifted, "key": {token: 1}, "big": token * 4000}
      - partner: { kind: http, url: "$URL/echo", auth: partner }
    set: { ctx.copied: "{{ output.data }}", ctx.kept: "{{ basic }}", ctx.seen: "{{ python.again }}" }
    next: { arcs: [{ step: child, args: { handed: "{{ form }}" } }] }
  - step: child
    tool: { kind: playbook, path: canary/child }
    next: { arcs: [{ step: wait }] }
  - step: wait
    tool:
      - signed:
          kind: http
          url: "$URL/echo?first=1"
          headers: { X-Token: "{{ keychain.till.token }}" }
          set: { iter.header: "Bearer {{ outcome.result }}" }
      - slow:
          kind: http
          url: "$URL/late"
          headers: { X-Token: "{{ keychain.till.token }}" }
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: { do: retry, attempts: 3, delay: 3, backoff: fixed }
                - else: { then: { do: continue } }
    next: { arcs: [{ step: each }] }
  - step: each
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool:
      - call:
          kind: http
          url: "$URL/echo?n={{ iter.n }}"
          auth: { type: header, credential: shop, header: X-Key, value: "{{ keychain.till.token }}" }
    next: { arcs: [{ step: fail }] }
  - step: fail
    tool: { kind: http, url: "$URL/fail", auth: mail, headers: { X-Token: "{{ keychain.till.token }}" } }
"""
PASSED_ON = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: passed, path: canary/passed }
keychain: [{ name: shop, kind: bearer }]
workflow:
  - step: start
    tool:
      - say:
          kind: python
          args: { t: "{{ keychain.shop.token }}" }
          code: "raise ValueError('no ' + t + ' here')"
          spec: { policy: { rules: [{ else: { then: { do: continue } } }] } }
      - give: { kind: playbook, path: canary/child, payload: { t: "{{ keychain.shop.token }}" } }
"""
DATABASE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: database, path: canary/database }
workflow:
  - step: start
    tool: { kind: postgres, auth: warehouse, query: "select 1" }
"""
EVERY_WAY = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: ways, path: canary/ways }
keychain:
  - { name: till, kind: bearer, credential: shop }
  - { name: signing, kind: generic }
  - { name: lake, kind: postgres_credential }
workflow:
  - step: start
    tool:
      - stored:
          kind: python
          args: { token: "{{ keychain.till.token }}" }
          code: |
            result = {"big": [token] * 400}
          set: { ctx.where: "{{ output.ref }}", ctx.all: { extend: "{{ output.data.big }}" } }
      - again:
          kind: python
          args: { token: "{{ keychain.till.token }}", seen: "{{ ctx.all | length }}" }
          code: |
            result = {"big": [token + str(number) for number in range(400)]}
          set: { ctx.all: { extend: "{{ output.data.big }}" } }
      - lines:
          kind: python
          args: { key: "{{ keychain.signing.private_key }}", pin: "{{ keychain.signing.pin }}", account: "{{ keychain.signing.account_key }}" }
          code: |
            import html, json
            print(key)
            print("x" * 8180 + key.replace("\\n", ""))
            print("ends with", key.splitlines()[1])
            result = {"pin": pin, "next": [pin], "said": f"pin {pin}", "html": html.escape(key), "hex": key.splitlines()[1].encode().hex(),
                      "repr": repr(key), "bytes": repr(key.encode()), "line": key.splitlines()[2], "id": json.loads(account)["private_key"]}
      - parsed:
          kind: python
          args: { dsn: "{{ keychain.lake.dsn }}" }
          code: |
            from urllib.parse import unquote, urlsplit
            inside = unquote(urlsplit(dsn).password)
            print("password", inside)
            raise ValueError(f"{inside!r} of {dsn}")
          spec: { policy: { rules: [{ else: { then: { do: continue } } }] } }
      - cut:
          kind: http
          url: "$URL/echo"
          params: { at: "{{ keychain.signing.long | epoch }}" }
          spec: { policy: { rules: [{ else: { then: { do: continue } } }] } }
      - shown:
          kind: python
          args: { token: "{{ keychain.signing.long }}" }
          code: |
            import sys
            sys.stderr.write("partly " + token[:40])
            raise RuntimeError(repr(token[:50]) + " and so on")
          spec: { policy: { rules: [{ else: { then: { do: continue } } }] } }
      - refused: { kind: postgres, auth: lake, query: "select 1", spec: { policy: { rules: [{ else: { then: { do: continue } } }] } } }
      - echoed:
          kind: postgres
          auth: real
          query: "select {{ keychain.till.token }}::text::int"
          spec: { policy: { rules: [{ else: { then: { do: continue } } }] } }
      - page: { kind: http, url: "$URL/page", auth: { type: header, header: X-Key, credential: shop, value: "{{ keychain.till.token }}" } }
"""
CRASHES = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: crashes, path: canary/crashes }
keychain: [{ name: shop, kind: bearer }]
workflow:
  - step: start
    tool:
      kind: python
      args: { t: "{{ keychain.shop.token }}" }
      code: |
        import ctypes, faulthandler, sys
        print("about to end with", t)
        faulthandler.enable()
        ctypes.string_at(0)
"""
