"""The tier ``disk``: a local folder in front of the cloud tier.

``pools`` holds copies, ``spill`` uploads new objects to the cloud.
"""
