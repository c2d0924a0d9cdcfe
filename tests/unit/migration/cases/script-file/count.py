def main(jars):
    return {"jars": jars}
