"""What runs inside the emulator's process: it has the emulator's packages and none of NoETL's."""
