//! The functions of a library, each found by its name when the library is opened.
//!
//! Invariant: a function is called only where the library has it; a call of a missing one panics, and loaders refuse a
//! library without the functions that are required.
//!
//! Not here: the functions (each SDK's `bindings`), which of them are required (its `library`).

/// Makes `Symbols` of a library's declarations: a field for each function, which holds its address or why it is missing,
/// and a method that calls it; none for a variadic one, whose caller takes the address.
macro_rules! symbols {
    (
        $(pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*
        $(variadic: $(pub fn $open:ident($($given:ident: $form:ty),*, ...) $(-> $answer:ty)?;)*)?
    ) => {
        pub struct Symbols {
            _library: ::libloading::Library,
            $(pub $name: Result<unsafe extern "C" fn($($argument: $type),*) $(-> $result)?, ::libloading::Error>,)*
            $($(pub $open: Result<unsafe extern "C" fn($($given: $form),*, ...) $(-> $answer)?, ::libloading::Error>,)*)?
        }

        impl Symbols {
            /// # Safety
            /// The library's functions of these names have these types.
            pub unsafe fn from_library(library: ::libloading::Library) -> Result<Self, ::libloading::Error> {
                // SAFETY: as the caller promises.
                $(let $name = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }.map(|symbol| *symbol);)*
                // SAFETY: as above.
                $($(let $open = unsafe { library.get(concat!(stringify!($open), "\0").as_bytes()) }.map(|symbol| *symbol);)*)?
                Ok(Symbols { _library: library, $($name,)* $($($open,)*)? })
            }

            $(
                /// # Safety
                /// As the library documents it.
                pub unsafe fn $name(&self, $($argument: $type),*) $(-> $result)? {
                    let function = self.$name.as_ref().expect("invariant: only functions that are there are called");
                    // SAFETY: as the caller promises.
                    unsafe { function($($argument),*) }
                }
            )*
        }
    };
}

pub(crate) use symbols;
