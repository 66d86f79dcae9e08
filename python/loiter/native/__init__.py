"""This machine itself: what it has, what waiting costs on it, and locks of programs that run on it.

`host` says what there is, `contention` measures locks as `loiter.contention` does on simulated machines, and `wrap`
puts a lock under a program's mutexes. Their programs are C, in `locks/native`; `build` compiles them at first use.
"""
