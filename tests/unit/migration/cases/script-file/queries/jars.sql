-- every jar
SELECT jar FROM jars
