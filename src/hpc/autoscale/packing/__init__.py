"""The engine: where requests fit, and which nodes are missing.

It knows no `Node`, no clock, no network and no log. `planner.Planner` answers a `Request` with a
`Plan` of `Step`s and changes nothing but what it remembers of questions; `Planner.apply` alone
writes a plan to the `Candidate`s, their `Limit`s and the `ChangeLog`, all of it or nothing. The
classes that integrators hold (`Node`, `NodeBucket`, limits) are handles over what is here.

| module | what |
| --- | --- |
| `expr`, `compound` | constraints, compiled: whether and how often something fits |
| `amounts` | how often an amount fits, and what is left of it |
| `shape` | what decides about a node, and what it looks like after something was placed |
| `reject` | why something does not fit |
| `candidate`, `limits` | a bucket as the engine sees it; what new nodes are charged to |
| `segment_tree` | indexes over the nodes of a candidate |
| `feasibility`, `order` | which candidates are asked, and in which order |
| `cursor` | what is remembered of the candidates for one expression |
| `plan`, `search` | requests, plans and steps; where single units and gangs find room |
| `planner` | makes plans, and applies them |
| `layers` | switches for what is there for speed alone |
"""
