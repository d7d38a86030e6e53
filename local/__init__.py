"""The whole system on one machine: emulator, statement store, stand-ins for APNs and FCM, the demo."""
