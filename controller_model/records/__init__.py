"""The records of the three topics: changes, events and views, and the nouns they are made of.

Each record is defined once, here. It may use `kafka`.
"""
