"""`loiter advise`: from a profile of locks, what each waiting method and each kind of lock would do on a machine.

A class of the profile becomes synthetic contention with its sections and its share of acquires that contend
(`demand`, `calibrate`); each policy runs it with several seeds (`study`); `effects` says which differ.
"""
