"""``semel lab``: scenes that show how exactly-once works, on real brokers with real faults.

Read ``scene.py`` first: what a scene is, and how its verdict is computed. ``stage.py`` is what a scene plays on: a
broker, clients, and a record of what passes on the wire and stands in the log. ``scenes/`` has one file for each scene;
``screen.py`` shows a scene in a terminal, ``sequence.py`` makes a sequence diagram of it, and ``scene_process.py``
plays it for the console.
"""
