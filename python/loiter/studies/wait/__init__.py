"""What each waiting method costs on a machine: `loiter wait`.

methods.py      the methods, the programs they are measured beside, and how many wait
measured.py  from the tables of runs to slowdowns and wake-up latencies
findings.py  both as a study that the study runner carries out, with tables and charts
"""
