"""Gangs in time: for which job nodes were asked for, where, how many, and until when all of them
have to be there.

`file`: what outlives the process. `members`: which nodes are of which gang. `gathering`: what a
pass makes of it: it keeps what a gang has so far and asks for the rest, or releases it, and knows
where a gang is not to be asked for again soon.
"""
