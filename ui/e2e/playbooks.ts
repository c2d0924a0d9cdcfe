/** Playbooks that the tests register. */

/** A playbook whose loop runs a line of Python for item 7. */
export const ORDERS = (path: string, customerOf7: string) => `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: orders, path: ${path}, description: Prices orders }
input:
  type: object
  properties:
    region: { type: string, enum: [eu, us], description: Where the orders come from }
    count: { type: integer, minimum: 1, maximum: 500, default: 12 }
workload: { region: eu, count: 12 }
workflow:
  - step: start
    tool:
      kind: python
      args: { count: "{{ workload.count }}" }
      code: |
        print("reading", count, "orders")
        result = {"orders": [{"id": i, "price": i * 3} for i in range(count)]}
    next: { arcs: [{ step: price }] }
  - step: price
    loop: { in: "{{ start.orders }}", iterator: order, spec: { mode: parallel, max_in_flight: 4 } }
    tool:
      kind: python
      args: { order: "{{ iter.order }}" }
      code: |
        print("pricing", order["id"])
        if order["id"] == 7:
            ${customerOf7}
        result = {"id": order["id"], "total": order["price"] * 1.2}
    next: { arcs: [{ step: report, when: "{{ event.name == 'loop.done' }}" }] }
  - step: report
    tool: { kind: noop, args: { priced: "{{ price.results | length }}" } }
`;

export const FAILING = ORDERS("sales/orders", 'raise ValueError("order 7 has no customer")');

export const REFUND = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: refund, path: sales/refund }
workload: { amount: 250 }
workflow:
  - step: start
    tool: { kind: wait, approve: true, message: "Refund {{ workload.amount }} EUR?" }
    next:
      arcs:
        - { step: pay, when: "{{ start.approved }}" }
        - { step: refuse, when: "{{ not start.approved }}" }
  - step: pay
    tool: { kind: noop, args: { paid: "{{ workload.amount }}" } }
  - step: refuse
    tool: { kind: noop, args: { refused: true } }
`;

export const HELLO = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello, path: demo/hello, schedule: { cron: "0 6 * * *", timezone: Europe/Berlin } }
workload: { huge: 18446744073709551617 }
workflow:
  - step: start
    tool: { kind: noop, args: { huge: "{{ workload.huge }}", text: hello } }
`;

export const GATE = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: gate, path: demo/gate }
workflow:
  - step: start
    tool: { kind: noop, args: { total: 3 } }
    next: gate
  - step: gate
    spec: { policy: { admit: { rules: [{ when: "{{ ctx.approved | default(false) }}", then: { allow: true } }, { else: { then: { allow: false } } }] } } }
    tool: { kind: noop, args: { total: 3 } }
`;

/** Counts to `workload.count` in the context, with steps that the engine runs itself. */
export const COUNTER = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: counter, path: demo/counter }
workload: { count: 3 }
workflow:
  - step: start
    tool: { kind: noop, args: { n: "{{ ctx.n | default(0) }}" } }
    set: { ctx.n: "{{ ctx.n | default(0) + 1 }}" }
    next: { arcs: [{ step: start, when: "{{ ctx.n < workload.count }}" }, { step: report, when: "{{ ctx.n >= workload.count }}" }] }
  - step: report
    tool: { kind: noop, args: { counted: "{{ ctx.n }}" } }
`;
