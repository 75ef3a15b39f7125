"""A page to look at: what a journal says of nodes, demand, cost and waiting jobs over time.

`history` adds a journal up, in figures whose number does not grow with that of nodes and jobs;
`charts` draws them as SVG, `page` puts everything into one HTML file that asks for nothing else,
and `live` serves the same page while a journal grows. Nothing but journals is read here.
"""
