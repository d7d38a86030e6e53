"""The whole system on one machine: emulator, statement store, stand-ins for APNs, FCM and Web Push, the demo."""
