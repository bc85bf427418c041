"""Options of Java for runs that are too short for it to warm up."""

BRISK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
